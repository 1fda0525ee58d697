import torch
import torch.nn as nn

# Hyper-parameters
input_size, hidden_size, num_classes, num_epochs = 12, 20, 3, 3
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
torch.manual_seed(0)


class NeuralNet(nn.Module):
    def __init__(self, input_size, hidden_size, num_classes):
        super(NeuralNet, self).__init__()
        self.fc1 = nn.Linear(input_size, hidden_size)
        self.relu = nn.ReLU()
        self.fc2 = nn.Linear(hidden_size, num_classes)

    def forward(self, x):
        return self.fc2(self.relu(self.fc1(x)))  # RAISES: 1


model = NeuralNet(input_size, hidden_size, num_classes)  # BUG: model-not-moved culprit=model.fc1.weight
# FIX: model = NeuralNet(input_size, hidden_size, num_classes).to(device)

criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
train_loader = [(torch.randn(5, 3, 4), torch.randint(0, 3, (5,))) for _ in range(3)]

for epoch in range(num_epochs):
    for i, (images, labels) in enumerate(train_loader):
        images = images.reshape(-1, 12).to(device)
        labels = labels.to(device)
        outputs = model(images)
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print('Epoch [{}/{}], Loss: {:.4f}'.format(epoch + 1, num_epochs, loss.item()))
